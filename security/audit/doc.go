// Package audit keeps an append-only record of decisions and changes,
// chained by hashes so that an entry altered, removed or reordered afterwards
// is found.
package audit
