// Package pki holds the bridge's certificate authorities and their certificates.
//
// There is one root, under it an intermediate authority for each grantor of certificates
// — operator, appstore, enterprise — and one for the bridge's own server certificate. A
// certificate is a capability: its scope names the holder and the skill, roles and scene
// types that it is for, and it can be taken away while it is in use. [Service] answers
// for all of them:
//
//   - [Service.VerifyPeer], [Service.Identify]: the party at the other end
//   - [Service.Authorize]: may the caller use a certificate for an action
//     (docs/protocol.md#certificates)
//   - [Service.Valid]: is a certificate still valid; a map lookup
//   - [Service.OnEnd]: notice, at once, of the end of a certificate
//
// A certificate is accepted only if the table has it, byte for byte: any other was not issued by
// the bridge, even if its signature is good. All bridges on one NATS share the table, so a
// revocation that one of them writes reaches every other within the time a message takes.
package pki
