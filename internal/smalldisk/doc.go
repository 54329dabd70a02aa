// Package smalldisk runs tests on a disk of their own that is so small that
// they can fill it.
package smalldisk
