package ask

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
)

const eventStreamType = "text/event-stream"

func isEventStream(r *http.Response) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && media == eventStreamType && r.StatusCode/100 == 2
}

var errEventTooLarge = errors.New("an event is too large")

// readEvents reads server-sent events and hands over the data of each, which is
// good until take returns. An event that the end cuts off is dropped.
func readEvents(r io.Reader, maxBytes int64, take func(data []byte)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, int(maxBytes)+len("data: \r\n"))
	var data []byte
	for lines.Scan() {
		line := lines.Bytes() // without the end of the line
		if len(line) == 0 {
			if len(data) > 0 {
				take(data)
			}
			data = data[:0]
			continue
		}
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue // a comment, or a field of no interest
		}
		if len(data) > 0 {
			data = append(data, '\n')
		}
		data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		if int64(len(data)) > maxBytes {
			return errEventTooLarge
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return errEventTooLarge
	}
	return lines.Err()
}
