package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// Exit codes by class of error.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError marks an error as the command line's own.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitCode is the exit code for an error: ten times the first digit of its
// protocol code, if it has one.
func exitCode(err error) int {
	var coded *protocol.Error
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage), strings.HasPrefix(err.Error(), "unknown command"):
		return exitUsage
	case errors.As(err, &coded) && len(coded.Code) == 4 && coded.Code[0] >= '1' && coded.Code[0] <= '5':
		return int(coded.Code[0]-'0') * 10
	}
	return exitFailed
}

// printDetails shows what a protocol error knows beyond its message.
func printDetails(w io.Writer, err error) {
	var coded *protocol.Error
	if !errors.As(err, &coded) || len(coded.Details) == 0 {
		return
	}
	if details, err := json.Marshal(coded.Details); err == nil {
		fmt.Fprintf(w, "  %s\n", details)
	}
}
