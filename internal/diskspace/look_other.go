//go:build !linux && !darwin && !freebsd

package diskspace

import "errors"

func look(string) (Disk, error) { return Disk{}, errors.ErrUnsupported }
