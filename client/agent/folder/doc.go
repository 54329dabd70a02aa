// Package folder keeps a folder of a device the same as the disk of a Cap: the
// device's files follow it, and what others put there arrives.
package folder
