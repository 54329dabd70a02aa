// Package schema compiles a Go type once into a codec: a strict decoder, an
// encoder, and the JSON Schema (2020-12) that accepts what the decoder
// accepts. The tags it understands are described in package commands.
//
// Reflection is used when a type is compiled; decoding and encoding then only
// walk the compiled tree and set fields. What comes in is strict: every
// problem is named with the path of the parameter (skill.capabilities[2].name)
// and a reason, unknown names with the one that was probably meant.
package schema
