// Package listing chooses one page of a list: the items that match, in the
// order that was asked for, from a cursor on. Every list command uses it, so
// that all lists are sorted and paged alike.
//
// A cursor names the last item of the page before by its position in the order,
// not by its number. So pages stay stable while items come and go, and an item
// that is gone is no obstacle.
package listing

import (
	"cmp"
	"encoding/base64"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// A Page selects a part of a list. All list commands have these params. The
// parameter "sort" is each command's own, as its tag names the columns.
type Page struct {
	Limit  int    `json:"limit,omitempty" range:"1-1000" default:"100" doc:"number to return at most"`
	Cursor string `json:"cursor,omitempty" len:"1-1024" doc:"next_cursor of the page before"`
}

const defaultLimit = 100

// Size is the number of items that are wanted, the default if none was given.
func (p Page) Size() int { return cmp.Or(p.Limit, defaultLimit) }

// A Key is a value to sort by: a number, a text, or neither.
type Key struct {
	number int64
	text   string
}

// Number is the key of a whole number, such as a time in Unix milliseconds.
func Number(n int64) Key { return Key{number: n} }

// Text is the key of a text.
func Text(s string) Key { return Key{text: s} }

func (k Key) compare(other Key) int {
	return cmp.Or(cmp.Compare(k.number, other.number), strings.Compare(k.text, other.text))
}

// An Order holds the columns that a list can be sorted by.
type Order[T any] struct {
	// ID is the id of an item. Items with equal keys are in the order of their ids.
	ID func(T) string
	// Keys are the columns by name, besides the id.
	Keys map[string]func(T) Key
	// Default is the order of a list without a given one: the name of a column, or
	// "id", with a minus before it for the highest first.
	Default string
}

// A Selection is one page.
type Selection[T any] struct {
	Items []T
	Total int    // how many items there are on all pages
	Next  string // cursor of the next page, "" on the last
}

// Select takes a page out of all items that a caller may see and that match
// its filters. sort is the name of a column, "" for the default. It fails with
// 1001 if there is no such column, or the cursor is not one of this order.
//
// It looks at every item once and keeps no more than it returns, so a page of a
// list of 100 000 costs some milliseconds.
func (o Order[T]) Select(all iter.Seq[T], sort string, p Page) (Selection[T], error) {
	by, err := o.by(cmp.Or(sort, o.Default, "id"))
	if err != nil {
		return Selection[T]{}, err
	}
	last, err := by.readCursor(p.Cursor)
	if err != nil {
		return Selection[T]{}, err
	}
	first := best[T]{most: p.Size(), by: by}
	total := 0
	for item := range all {
		total++
		if at := by.position(item); last == nil || by.compare(at, *last) > 0 {
			first.add(at, item)
		}
	}
	return first.selection(total), nil
}

// A column is the sort key of a list.
type column[T any] struct {
	id         func(T) string
	key        func(T) Key // nil: the id alone
	descending bool
}

func (o Order[T]) by(sort string) (column[T], error) {
	name, descending := strings.CutPrefix(sort, "-")
	c := column[T]{id: o.ID, key: o.Keys[name], descending: descending}
	if c.key == nil && name != "id" {
		return c, protocol.InvalidParam("sort", "names no column of this list")
	}
	return c, nil
}

// A position is the place of an item in the order.
type position struct {
	key Key
	id  string
}

func (c column[T]) position(item T) position {
	p := position{id: c.id(item)}
	if c.key != nil {
		p.key = c.key(item)
	}
	return p
}

func (c column[T]) compare(a, b position) int {
	order := cmp.Or(a.key.compare(b.key), strings.Compare(a.id, b.id))
	if c.descending {
		return -order
	}
	return order
}

// cursor is a position as a text: the id alone where that suffices.
func (c column[T]) cursor(p position) string {
	if c.key == nil {
		return p.id
	}
	plain := strconv.FormatInt(p.key.number, 36) + "/" + strconv.Itoa(len(p.key.text)) + "/" + p.key.text + p.id
	return base64.RawURLEncoding.EncodeToString([]byte(plain))
}

// readCursor reads the position in a cursor. It is nil for the first page.
func (c column[T]) readCursor(cursor string) (*position, error) {
	if cursor == "" {
		return nil, nil
	}
	if c.key == nil {
		return &position{id: cursor}, nil
	}
	wrong := protocol.InvalidParam("cursor", "is not a next_cursor of this list in this order")
	plain, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, wrong
	}
	number, rest, _ := strings.Cut(string(plain), "/")
	size, rest, _ := strings.Cut(rest, "/")
	n, err := strconv.ParseInt(number, 36, 64)
	if err != nil {
		return nil, wrong
	}
	length, err := strconv.Atoi(size)
	if err != nil || length < 0 || length > len(rest) {
		return nil, wrong
	}
	return &position{key: Key{number: n, text: rest[:length]}, id: rest[length:]}, nil
}

// best keeps the first items of an order, of items that come in any order.
type best[T any] struct {
	most  int
	by    column[T]
	found []candidate[T]
	full  bool // there were more than most
}

type candidate[T any] struct {
	at   position
	item T
}

// add takes an item in. The items are sorted, and those beyond the page
// dropped, whenever there are twice as many as are wanted.
func (b *best[T]) add(at position, item T) {
	if b.full && b.by.compare(at, b.found[b.most-1].at) >= 0 {
		return
	}
	b.found = append(b.found, candidate[T]{at, item})
	if len(b.found) >= 2*b.most && len(b.found) > b.most {
		b.trim()
	}
}

func (b *best[T]) trim() {
	slices.SortFunc(b.found, func(x, y candidate[T]) int { return b.by.compare(x.at, y.at) })
	if len(b.found) > b.most {
		clear(b.found[b.most:])
		b.found, b.full = b.found[:b.most], true
	}
}

func (b *best[T]) selection(total int) Selection[T] {
	b.trim()
	s := Selection[T]{Total: total, Items: make([]T, len(b.found))}
	for i, c := range b.found {
		s.Items[i] = c.item
	}
	if b.full {
		s.Next = b.by.cursor(b.found[len(b.found)-1].at)
	}
	return s
}
