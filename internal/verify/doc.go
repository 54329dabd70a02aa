// Package verify tries the promises of a bridge on a copy of its state, with its
// own configuration and policies, against simulated devices and a simulated model.
//
// Nothing real is reached. The copy is restored from a backup into a folder of its
// own; of its records only credentials, policies and certificates are kept, so
// that there are no devices, tasks or runs to go on with; and all addresses outside
// the process are taken out of the configuration. Each promise has a positive
// control: a call that is to be refused is first shown to work. A promise that
// cannot be tried does not count as kept, and its result says why.
package verify
