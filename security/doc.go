// Package security authenticates and authorizes: API keys and
// the principals behind them, the authorization of commands, and the rights
// on topics.
package security
