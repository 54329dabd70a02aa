package protocol

// A Priority orders requests when workers are short.
type Priority uint8

// The priorities. The zero value is the default.
const (
	Medium Priority = iota
	High
	Low
)
