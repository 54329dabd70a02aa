// Package policy authorizes, by policies in Cedar: those that come with the
// bridge (shipped/*.cedar), those in files and those put by policy.put. An act
// that no policy permits is denied; one that forbids outweighs all that permit.
// The model that policies speak of is in docs/policy.md and, for the validator,
// in schema.go.
package policy
