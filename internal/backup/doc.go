// Package backup saves the whole state of a bridge, and restores it: the store, and
// the places in the data folder that belong to it.
//
// [Write] and [Restore] work on the state of a stopped bridge. A [Service] saves
// the bridge that it is part of while that serves: when an administrator asks
// for it, and by itself on a schedule.
//
// The secrets in the data folder, such as the pepper of the API keys, are never
// saved: a stolen backup must not give usable credentials.
package backup
