//go:build !unix

package parked_test

import "time"

func processorTime() time.Duration { return 0 }
