// Package token verifies JSON Web Tokens (RFC 7519) and says which principal
// stands behind one.
//
// There are two sorts. Tokens of an issuer are trusted as far as the bridge's
// configuration trusts that issuer: its keys, its algorithms, its audience and
// what its claims may say are pinned per issuer, so that a token can never
// choose how it is verified. Proofs are signed with the key of a certificate
// that the bridge knows; they say nothing but "I hold this key", are
// short-lived, and count once.
package token
