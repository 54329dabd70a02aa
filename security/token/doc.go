// Package token verifies JSON Web Tokens (RFC 7519) and yields their principals.
//
// There are two sorts. Tokens of an issuer are trusted as far as the bridge's
// configuration trusts that issuer: its keys, its algorithms, its audience and the
// claims it may make are pinned per issuer, so that a token can never choose how it
// is verified. Proofs are signed with the key of a certificate that the bridge
// knows; they say nothing but "I hold this key", are short-lived, and are accepted
// once.
package token
