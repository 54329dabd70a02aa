package tools

// prepared is what is derived from a declaration once.
type prepared struct{}
