// Package folder keeps a folder of a device the same as the disk of a Cap: changes
// of either side are carried over to the other.
package folder
