package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aibridge/aibridge/client"
)

// insertTimeout bounds one transaction; after it the batch is tried again.
const insertTimeout = 30 * time.Second

// create is the table as it is made. payload has every message as it came; body has it too,
// where PostgreSQL takes it for JSON. event_id is unique, so a message that says
// its id is in the table once however often it comes.
const create = `CREATE TABLE IF NOT EXISTS %s (
	id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	received_at timestamptz NOT NULL DEFAULT now(),
	topic       text NOT NULL,
	payload     bytea NOT NULL,
	body        jsonb,
	properties  jsonb NOT NULL,
	event_id    text UNIQUE
)`

// insert is one statement, which is one transaction: a batch is in the table whole or not at all.
const insert = `INSERT INTO %s (topic, payload, body, properties, event_id)
	SELECT topic, payload, body::jsonb, properties::jsonb, event_id
	FROM unnest($1::text[], $2::bytea[], $3::text[], $4::text[], $5::text[])
		AS m (topic, payload, body, properties, event_id)
	ON CONFLICT (event_id) DO NOTHING`

// A table takes messages.
type table struct {
	pool            *pgxpool.Pool
	createStatement string
	insertStatement string
	made            bool
}

func newTable(pool *pgxpool.Pool, name string) (*table, error) {
	parts := strings.Split(name, ".")
	for _, part := range parts {
		if part == "" || len(parts) > 2 {
			return nil, fmt.Errorf("--table: must be TABLE or SCHEMA.TABLE, is %q", name)
		}
	}
	quoted := pgx.Identifier(parts).Sanitize()
	return &table{pool: pool, createStatement: fmt.Sprintf(create, quoted), insertStatement: fmt.Sprintf(insert, quoted)}, nil
}

// insert handles messages for [client.Consume].
func (t *table) insert(ctx context.Context, messages []client.Message) error {
	if !t.made {
		if _, err := t.pool.Exec(ctx, t.createStatement); err != nil {
			return fmt.Errorf("make the table: %w", err)
		}
		t.made = true
	}
	rows := make([]row, len(messages))
	for i := range messages {
		rows[i] = rowOf(&messages[i])
	}
	ctx, cancel := context.WithTimeout(ctx, insertTimeout)
	defer cancel()
	return t.insertRows(ctx, t.pool, rows)
}

// A beginner begins a transaction, or a savepoint in one.
type beginner interface {
	Begin(context.Context) (pgx.Tx, error)
}

// insertRows halves a batch that holds something PostgreSQL does not take, until
// that is alone. A message that is JSON to others and not to PostgreSQL, such as a
// text with \u0000, then goes in without a body: it must not hold up the rest. The
// batch stays one transaction.
func (t *table) insertRows(ctx context.Context, at beginner, rows []row) error {
	err := pgx.BeginFunc(ctx, at, func(tx pgx.Tx) error { return t.insertTogether(ctx, tx, rows) })
	if !refused(err) {
		return err
	}
	if len(rows) == 1 {
		if rows[0].body == nil {
			return err
		}
		rows[0].body = nil
		return t.insertRows(ctx, at, rows)
	}
	return pgx.BeginFunc(ctx, at, func(tx pgx.Tx) error {
		half := len(rows) / 2
		if err := t.insertRows(ctx, tx, rows[:half]); err != nil {
			return err
		}
		return t.insertRows(ctx, tx, rows[half:])
	})
}

// refused reports whether the rows are the reason of an error: data exceptions are
// class 22, exceeded limits such as nested JSON class 54.
func refused(err error) bool {
	denied, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(denied.Code, "22") || strings.HasPrefix(denied.Code, "54"))
}

func (t *table) insertTogether(ctx context.Context, tx pgx.Tx, rows []row) error {
	topics, properties := make([]string, len(rows)), make([]string, len(rows))
	bodies, ids := make([]*string, len(rows)), make([]*string, len(rows))
	payloads := make([][]byte, len(rows))
	for i, r := range rows {
		topics[i], payloads[i], bodies[i], properties[i], ids[i] = r.topic, r.payload, r.body, r.properties, r.eventID
	}
	_, err := tx.Exec(ctx, t.insertStatement, topics, payloads, bodies, properties, ids)
	return err
}
