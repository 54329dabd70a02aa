//go:build !linux

package drill

import (
	"context"
	"errors"
)

// Run needs Linux.
func Run(context.Context, Options) (Report, error) {
	return Report{}, errors.New("drill: stopping and cutting off processes needs Linux")
}
