package registry

import "fmt"

// A page is what every list takes. Lists are in the order of ids and the
// cursor is the last id of the page before, so pages stay stable whatever
// comes and goes in between.
type page struct {
	Limit  int    `json:"limit,omitempty" range:"1-1000" default:"100" doc:"how many to return at most"`
	Cursor string `json:"cursor,omitempty" len:"1-64" doc:"next_cursor of the page before"`
}

// size is how many to return, also when nobody has filled in the default.
func (p page) size() int {
	if p.Limit <= 0 {
		return 100
	}
	return p.Limit
}

// itemPath is the path of a field of an item of a list.
func itemPath(list string, i int, field string) string {
	at := fmt.Sprintf("%s[%d]", list, i)
	if field == "" {
		return at
	}
	return at + "." + field
}
