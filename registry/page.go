package registry

import "fmt"

// itemPath is the path of a field of an item of a list.
func itemPath(list string, i int, field string) string {
	at := fmt.Sprintf("%s[%d]", list, i)
	if field == "" {
		return at
	}
	return at + "." + field
}
