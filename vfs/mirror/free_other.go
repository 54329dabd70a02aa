//go:build !linux && !darwin

package mirror

func freeSpace(string) int64 { return -1 }
