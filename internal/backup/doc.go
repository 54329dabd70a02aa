// Package backup saves all that a bridge knows, and brings it back: the store,
// and the places in the data folder that belong to it.
//
// [Write] and [Restore] work on the state of a stopped bridge. A [Service] saves
// the bridge that it is part of while that serves: when an administrator asks
// for it, and by itself on a schedule.
//
// The secrets in the data folder, such as the pepper of the API keys, are never
// saved: whoever gets hold of a backup shall not be able to use what it has.
package backup
