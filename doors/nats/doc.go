// Package nats is the door of NATS clients.
//
// The bridge is a client of a NATS that others use, and a service there by the
// rules of NATS micro (ADR-32): `nats micro ls` finds it, and its endpoints are
// called by request and reply. A [Door] takes requests; a [Subjects] carries
// messages between MQTT topics and NATS subjects, by the mapping of nats-server.
//
// Of the library micro, the door takes the types and the control subjects. Its
// services are no use here: they have a fixed list of endpoints, answer one
// request after the other, and this door's list goes by what policy allows.
package nats
