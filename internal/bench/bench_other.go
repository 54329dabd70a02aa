//go:build !linux

package bench

import (
	"context"
	"errors"
)

var errLinux = errors.New("bench: the load generator needs Linux")

// MQTT needs Linux.
func MQTT(context.Context, Options) (Report, error) { return Report{}, errLinux }

// Guard needs Linux.
func Guard(context.Context, GuardOptions) ([]Comparison, error) { return nil, errLinux }

// Invoke needs Linux.
func Invoke(context.Context, InvokeOptions) (Report, error) { return Report{}, errLinux }

// Relay needs Linux.
func Relay(context.Context, RelayOptions) (Report, error) { return Report{}, errLinux }

func (o GoalsOptions) measureStarts(context.Context) (Report, error) { return Report{}, errLinux }

func (o GoalsOptions) measureResumption(context.Context) (Report, error) { return Report{}, errLinux }
