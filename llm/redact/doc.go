// Package redact keeps values such as addresses and numbers from leaving the house: a
// [Mask] replaces them in a request to a model by placeholders, and puts them back into
// the answer, so that a tool gets the values that the person typed.
//
// A mask belongs to one request and knows the values of that request's own
// conversation alone. Histories keep the values themselves; every request
// hides them anew, by the same placeholders as long as it begins the same.
package redact
