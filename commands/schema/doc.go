// Package schema compiles a Go type once into a codec: a strict decoder, an
// encoder, and the JSON Schema (2020-12) that accepts what the decoder
// accepts. The tags it understands are described in package commands.
//
// Reflection is used when a type is compiled; decoding and encoding then only
// walk the compiled tree and set fields. Decoding is strict: every problem has
// the path of the parameter (skill.capabilities[2].name) and a reason, an
// unknown name also the nearest known one.
package schema
