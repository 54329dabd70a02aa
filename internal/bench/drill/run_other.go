//go:build !linux

package drill

import (
	"context"
	"errors"
	"time"
)

// Run needs Linux.
func Run(context.Context, Options) (Report, error) {
	return Report{}, errors.New("drill: stopping and cutting off processes needs Linux")
}

// Drain needs Linux.
func Drain(context.Context, Options, int, time.Duration) (DrainReport, error) {
	return DrainReport{}, errors.New("drill: ports and processes of a drain need Linux")
}
