// Package security says who somebody is and what they may do: API keys and
// the principals behind them, the authorization of commands, and the rights
// on topics.
package security
