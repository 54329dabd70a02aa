// Package app is the composition root: it builds a bridge out of its parts,
// runs it, and stops it in reverse order. Nothing but cmd imports it.
package app
