// Package postgres has the output "postgres", which fills a table of PostgreSQL.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redpanda-data/benthos/v4/public/bloblang"
	"github.com/redpanda-data/benthos/v4/public/service"
)

// insertTimeout bounds one transaction; after it the batch is tried again.
const insertTimeout = 30 * time.Second

const description = `
A batch is one transaction. If PostgreSQL refuses rows – a value that does not fit its column, a broken constraint – only their messages fail, and the others are inserted without them. They are tried again for ever, unless an output ` + "`fallback`" + ` takes them. That one takes every failure, also of a server that is away: ` + "`fallback_error`" + ` in the metadata has the SQLSTATE of a refusal, such as 22P02.

A pipeline that delivers at least once brings some messages twice. With ` + "`on_conflict`" + ` a message that has an id is in the table once.
`

func spec() *service.ConfigSpec {
	return service.NewConfigSpec().
		Categories("Services").
		Summary("Inserts messages into a table of PostgreSQL.").
		Description(description).
		Fields(
			service.NewStringField("dsn").Secret().
				Description("The database, as `postgres://user@host/database`. What it does not say, the variables that `psql` reads do: `PGHOST`, `PGPASSWORD` and so on.").Default(""),
			service.NewStringField("init_statement").Optional().
				Description("A statement that is run at the start, such as CREATE TABLE IF NOT EXISTS."),
			service.NewStringField("table").Description("TABLE or SCHEMA.TABLE, in the case of letters that it has."),
			service.NewStringListField("columns").Description("Columns to fill.").Example([]string{"topic", "body"}),
			service.NewBloblangField("args_mapping").
				Description("A mapping that makes a list of a message: a value for each column. Objects and lists become JSON, bytes `bytea`, all else the text that PostgreSQL reads for the type of the column.").
				Example(`root = [ metadata("aibridge_topic"), this ]`),
			service.NewObjectField("on_conflict",
				service.NewStringListField("columns").Description("Columns of a unique index."),
				service.NewStringEnumField("action", "nothing", "update").
					Description("What becomes of a row whose key is there: it is dropped, or replaces the other columns.").Default("nothing"),
			).Optional().Description("What identifies a row."),
			service.NewIntField("max_in_flight").Description("Batches that are inserted at a time.").Default(1).
				LintRule(`root = if this < 1 || this > 100 { ["must be 1 to 100"] }`),
			service.NewBatchPolicyField("batching"),
		)
}

func init() {
	err := service.RegisterBatchOutput("postgres", spec(), func(conf *service.ParsedConfig, mgr *service.Resources) (service.BatchOutput, service.BatchPolicy, int, error) {
		return newOutput(conf, mgr)
	})
	if err != nil {
		panic(err)
	}
}

type output struct {
	config  *pgxpool.Config
	init    string
	insert  string
	columns int
	mapping *bloblang.Executor
	log     *service.Logger
	pool    *pgxpool.Pool // nil before Connect
}

func newOutput(conf *service.ParsedConfig, mgr *service.Resources) (out *output, policy service.BatchPolicy, inFlight int, err error) {
	fail := func(err error) (*output, service.BatchPolicy, int, error) { return nil, policy, 0, err }
	out = &output{log: mgr.Logger()}
	dsn, err := conf.FieldString("dsn")
	if err != nil {
		return fail(err)
	}
	if out.config, err = pgxpool.ParseConfig(dsn); err != nil {
		return fail(fmt.Errorf("dsn: %w", err))
	}
	if conf.Contains("init_statement") {
		if out.init, err = conf.FieldString("init_statement"); err != nil {
			return fail(err)
		}
	}
	if out.insert, out.columns, err = insertStatement(conf); err != nil {
		return fail(err)
	}
	if out.mapping, err = conf.FieldBloblang("args_mapping"); err != nil {
		return fail(err)
	}
	if inFlight, err = conf.FieldMaxInFlight(); err != nil {
		return fail(err)
	}
	out.config.MaxConns = int32(max(inFlight, 1))
	policy, err = conf.FieldBatchPolicy("batching")
	return out, policy, inFlight, err
}

// insertStatement is the statement for one row.
func insertStatement(conf *service.ParsedConfig) (statement string, columns int, err error) {
	table, err := conf.FieldString("table")
	if err != nil {
		return "", 0, err
	}
	parts := strings.Split(table, ".")
	for _, part := range parts {
		if part == "" || len(parts) > 2 {
			return "", 0, fmt.Errorf("table: must be TABLE or SCHEMA.TABLE, is %q", table)
		}
	}
	names, err := conf.FieldStringList("columns")
	if err != nil {
		return "", 0, err
	}
	if len(names) == 0 {
		return "", 0, errors.New("columns: must not be empty")
	}
	values := make([]string, len(names))
	for i := range names {
		values[i] = fmt.Sprintf("$%d", i+1)
	}
	statement = fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", pgx.Identifier(parts).Sanitize(), quoted(names), strings.Join(values, ", "))
	if !conf.Contains("on_conflict") {
		return statement, len(names), nil
	}
	conflict, err := conflictClause(conf.Namespace("on_conflict"), names)
	return statement + conflict, len(names), err
}

func conflictClause(conf *service.ParsedConfig, columns []string) (string, error) {
	key, err := conf.FieldStringList("columns")
	if err != nil {
		return "", err
	}
	if len(key) == 0 {
		return "", errors.New("on_conflict.columns: must not be empty")
	}
	action, err := conf.FieldString("action")
	if err != nil {
		return "", err
	}
	clause := fmt.Sprintf(" ON CONFLICT (%s) DO ", quoted(key))
	var set []string
	for _, name := range columns {
		if !slices.Contains(key, name) {
			column := pgx.Identifier{name}.Sanitize()
			set = append(set, column+" = EXCLUDED."+column)
		}
	}
	if action == "nothing" || len(set) == 0 {
		return clause + "NOTHING", nil
	}
	return clause + "UPDATE SET " + strings.Join(set, ", "), nil
}

func quoted(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = pgx.Identifier{name}.Sanitize()
	}
	return strings.Join(all, ", ")
}

// Connect waits for the server, and runs the first statement.
func (out *output) Connect(ctx context.Context) error {
	if out.pool == nil {
		pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), out.config)
		if err != nil {
			return err
		}
		out.pool = pool
	}
	if out.init == "" {
		return out.pool.Ping(ctx)
	}
	if _, err := out.pool.Exec(ctx, out.init); err != nil {
		return fmt.Errorf("init_statement: %w", err)
	}
	return nil
}

// WriteBatch inserts a batch. Its error says which messages were refused, if it is that.
func (out *output) WriteBatch(ctx context.Context, batch service.MessageBatch) error {
	refusals := make([]error, len(batch))
	var rows []row
	for i := range batch {
		values, err := out.values(batch, i)
		if err != nil {
			refusals[i] = err
			continue
		}
		rows = append(rows, row{i, values})
	}
	ctx, cancel := context.WithTimeout(ctx, insertTimeout)
	defer cancel()
	if err := out.insertRows(ctx, rows, refusals); err != nil {
		return err
	}
	var all *service.BatchError
	for i, err := range refusals {
		if err == nil {
			continue
		}
		if all == nil {
			all = service.NewBatchError(batch, err)
		}
		all.Failed(i, err)
	}
	if all != nil {
		return all
	}
	return nil
}

// A row is a message of a batch, as text for each column, nil for NULL.
type row struct {
	index  int
	values [][]byte
}

// insertRows inserts rows in one transaction. If some of them are the reason why that
// fails, it halves until they are alone, and notes their refusals.
func (out *output) insertRows(ctx context.Context, rows []row, refusals []error) error {
	if len(rows) == 0 {
		return nil
	}
	err := out.insertTogether(ctx, rows)
	switch {
	case !refused(err):
		return err
	case len(rows) == 1:
		refusals[rows[0].index] = err
		return nil
	}
	half := len(rows) / 2
	if err := out.insertRows(ctx, rows[:half], refusals); err != nil {
		return err
	}
	return out.insertRows(ctx, rows[half:], refusals)
}

// refused reports whether rows are the reason of an error: data exceptions are class
// 22, broken constraints 23, exceeded limits such as nested JSON 54.
func refused(err error) bool {
	denied, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(denied.Code, "22") || strings.HasPrefix(denied.Code, "23") || strings.HasPrefix(denied.Code, "54"))
}

// insertTogether sends all rows at once, which is one transaction. The server reads the
// values: it knows the types of its columns.
func (out *output) insertTogether(ctx context.Context, rows []row) error {
	c, err := out.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	server := c.Conn().PgConn()
	const unnamed = ""
	if _, err := server.Prepare(ctx, unnamed, out.insert, nil); err != nil {
		return err
	}
	var batch pgconn.Batch
	for _, r := range rows {
		batch.ExecPrepared(unnamed, r.values, nil, nil)
	}
	_, err = server.ExecBatch(ctx, &batch).ReadAll()
	return err
}

// Close closes the connections.
func (out *output) Close(context.Context) error {
	if out.pool != nil {
		out.pool.Close()
	}
	return nil
}
