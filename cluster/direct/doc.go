// Package direct carries frames between the bridges of a cluster over TLS
// connections of their own, called lines, and over another transport to those to
// which there is none.
//
// Two bridges have one line with each other. Both may dial: the one with the lower
// id at once, the other one if that has not come about; of two lines the one that
// the lower id has dialled stays. A line that breaks, or on which nothing was heard
// for some time, is closed, and dialled again. Frames that were on it may be lost,
// and those that go another way may overtake: what is carried has to bear that, as
// the streams of package relay do.
//
// Both sides of a line show a certificate that follows from a secret of the cluster
// and has the id of the bridge in it. Who has the secret may act as any of the
// bridges; nobody else gets further than the handshake.
package direct
