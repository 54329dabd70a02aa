// Package pki holds the bridge's certificate authorities and their certificates.
//
// There is one root, under it an intermediate authority for everyone who may
// grant certificates — operator, appstore, enterprise — and one for the
// bridge's own server certificate. A certificate is a capability: its scope
// says who holds it, for which skill, roles and scene types, and it can be
// taken away while it is in use. [Service] answers for all of them:
//
//   - [Service.VerifyPeer], [Service.Identify]: the party at the other end
//   - [Service.Authorize]: may the caller use this serial for that (docs/protocol.md#certificates)
//   - [Service.Valid]: does a serial still count; a map lookup
//   - [Service.OnEnd]: notice, at once, that one does not any more
//
// A certificate counts only if the bridge knows it, byte for byte: what is not
// in the table was not issued, whatever its signature says. All bridges on one
// NATS share the table, so a revocation that one of them writes is every
// other's within the time a message takes.
package pki
