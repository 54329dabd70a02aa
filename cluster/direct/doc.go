// Package direct carries frames between the bridges of a cluster over TLS connections
// of their own, called lines. Frames to a bridge without a line go over another
// transport.
//
// Two bridges have one line with each other. Both may dial: the one with the lower id
// at once, the other one if that has not come about; of two lines the one that the
// lower id has dialled stays. A line that breaks, or on which nothing was heard for
// some time, is closed, and dialled again. Frames on it may be lost, and frames over
// the other transport may overtake them: the protocol above has to tolerate that, as
// the streams of package relay do.
//
// Both sides of a line show a certificate that follows from a secret of the cluster and
// has the id of the bridge in it. Any holder of the secret may act as any of the
// bridges; other processes do not get past the handshake.
package direct
