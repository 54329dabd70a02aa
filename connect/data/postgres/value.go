package postgres

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
)

// values makes the values of a row.
func (out *output) values(batch service.MessageBatch, i int) ([][]byte, error) {
	m, err := batch.BloblangQuery(i, out.mapping)
	if err != nil {
		return nil, fmt.Errorf("args_mapping: %w", err)
	}
	if m == nil {
		return nil, errors.New("args_mapping: must make a list, not delete the message")
	}
	made, err := m.AsStructured()
	list, ok := made.([]any)
	if err != nil || !ok || len(list) != out.columns {
		return nil, fmt.Errorf("args_mapping: must make a list of %d values, one for each column", out.columns)
	}
	values := make([][]byte, len(list))
	for n, v := range list {
		if values[n], err = text(v); err != nil {
			return nil, fmt.Errorf("args_mapping: value %d: %w", n+1, err)
		}
	}
	return values, nil
}

// text is a value of Bloblang as PostgreSQL reads it, nil for NULL.
func text(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return []byte(v), nil
	case []byte:
		return append([]byte(`\x`), hex.EncodeToString(v)...), nil
	case bool:
		return strconv.AppendBool(nil, v), nil
	case float64:
		return strconv.AppendFloat(nil, v, 'g', -1, 64), nil
	case time.Time:
		return v.AppendFormat(nil, time.RFC3339Nano), nil
	case json.Number:
		return []byte(v), nil
	case map[string]any, []any:
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err := e.Encode(v)
		return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), err
	default:
		return fmt.Append(nil, v), nil // integers of every size
	}
}
