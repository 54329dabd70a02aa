// Package verify tries the promises of a bridge on a copy of its state, with its
// own configuration and policies, against devices and a model that are made up.
//
// Nothing real is reached. The copy is restored from a backup into a folder of its
// own; of its records only credentials, policies and certificates are kept, so
// that there are no devices, tasks or runs to go on with; and whatever leads out
// of the process is taken out of the configuration. Each promise has a positive
// control: what is to be refused is first shown to work. A promise that cannot be
// tried is no promise kept, and says why.
package verify
