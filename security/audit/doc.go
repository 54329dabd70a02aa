// Package audit keeps an append-only record of what was decided and changed,
// chained by hashes so that what was altered, removed or reordered afterwards
// is found.
package audit
