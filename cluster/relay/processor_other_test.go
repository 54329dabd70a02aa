//go:build !unix

package relay

import "time"

// processorTime is the time that this process has used, 0 where it cannot be told.
func processorTime() time.Duration { return 0 }
