// Package pki holds the bridge's certificate authorities and their certificates.
//
// There is one root, under it an intermediate authority for each grantor of certificates
// — operator, appstore, enterprise — and one for the bridge's own server certificate. A
// certificate is a capability: its scope names the holder and the skill, roles and scene
// types that it is for, and it can be taken away while it is in use. [Service] answers
// for all of them:
//
//   - [Service.VerifyPeer], [Service.Identify]: the party at the other end
//   - [Service.Authorize]: may the caller use this serial for that (docs/protocol.md#certificates)
//   - [Service.Valid]: does a serial still count; a map lookup
//   - [Service.OnEnd]: notice, at once, that one does not any more
//
// A certificate counts only if the bridge knows it, byte for byte: one that is not in the
// table was not issued, whatever its signature says. All bridges on one NATS share the
// table, so a revocation that one of them writes is every other's within the time a
// message takes.
package pki
