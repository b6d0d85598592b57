package index

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// dialect is what SQLite and PostgreSQL do not say alike. Statements are written once, with ? for a
// parameter; what differs in them is a method here. Both compare text by its bytes.
type dialect struct{ postgres bool }

var (
	embedded = dialect{}
	shared   = dialect{postgres: true}
)

// either returns what the database in use says.
func (d dialect) either(sqlite, postgres string) string {
	if d.postgres {
		return postgres
	}
	return sqlite
}

// text is the type of text that is compared by its bytes.
func (d dialect) text() string { return d.either(`TEXT`, `TEXT COLLATE "C"`) }

// join is a join that visits what is on its left first. PostgreSQL is told so by join_collapse_limit.
func (d dialect) join() string { return d.either(` CROSS JOIN `, ` JOIN `) }

// by follows a table whose rows are to be found by an index. PostgreSQL finds out itself.
func (d dialect) by(index string) string { return d.either(` INDEXED BY `+index, ``) }

// exists is true if a table has rows. PostgreSQL is told by OFFSET to look for them at once, and not behind all tables
// that are joined.
func (d dialect) exists(from string) string {
	return `EXISTS (SELECT 1 FROM ` + from + d.either(`)`, ` OFFSET 0)`)
}

// contains is true if a column has the text of the parameter in it.
func (d dialect) contains(column string) string {
	return d.either(`instr(`, `strpos(`) + column + `, ?) > 0`
}

// matches is true if a column is like the pattern of the parameter, which pattern makes.
func (d dialect) matches(column string) string { return column + d.either(` GLOB ?`, ` LIKE ?`) }

// What means something in a pattern, as what stands for itself.
var (
	globbed = strings.NewReplacer(`[`, `[[]`, `?`, `[?]`, `*`, `[*]`)
	liked   = strings.NewReplacer(`\`, `\\`, `_`, `\_`, `%`, `\%`)
)

// pattern returns the pattern of texts with anything between them.
func (d dialect) pattern(parts []string) string {
	escape, anything := globbed, `*`
	if d.postgres {
		escape, anything = liked, `%`
	}
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = escape.Replace(part)
	}
	return strings.Join(escaped, anything)
}

// column is a column of a list: a name, and values of one type, []string or []int64.
type column struct {
	name   string
	values any
}

// list returns a table of parameters, called alias. All columns have as many values.
func (d dialect) list(alias string, columns ...column) (string, []any) {
	switch {
	case d.postgres:
		return d.arrays(alias, columns)
	case len(columns) == 1: // is read much faster
		encoded, _ := json.Marshal(columns[0].values) // text and numbers are always encoded
		return `(SELECT value AS ` + columns[0].name + ` FROM json_each(?)) ` + alias, []any{string(encoded)}
	}
	names, rows := make([]string, len(columns)), [][]any(nil)
	for i, c := range columns {
		names[i] = fmt.Sprintf(`value ->> %d AS %s`, i, c.name)
		for n := range length(c.values) {
			if i == 0 {
				rows = append(rows, make([]any, len(columns)))
			}
			rows[n][i] = valueAt(c.values, n)
		}
	}
	encoded, _ := json.Marshal(rows) // text and numbers are always encoded
	return `(SELECT ` + strings.Join(names, `, `) + ` FROM json_each(?)) ` + alias, []any{string(encoded)}
}

func (d dialect) arrays(alias string, columns []column) (string, []any) {
	arrays, names, args := make([]string, len(columns)), make([]string, len(columns)), make([]any, len(columns))
	for i, c := range columns {
		arrays[i], names[i], args[i] = `?::bigint[]`, c.name, c.values
		if _, isText := c.values.([]string); isText {
			arrays[i] = `?::text[]`
		}
	}
	return `unnest(` + strings.Join(arrays, `, `) + `) AS ` + alias + `(` + strings.Join(names, `, `) + `)`, args
}

func length(values any) int {
	if texts, ok := values.([]string); ok {
		return len(texts)
	}
	return len(values.([]int64)) // there are two types
}

func valueAt(values any, n int) any {
	if texts, ok := values.([]string); ok {
		return texts[n]
	}
	return values.([]int64)[n] // there are two types
}

// insert adds rows to a table, of lists that all have as many values.
func (d dialect) insert(ctx context.Context, tx *sql.Tx, table string, columns ...column) error {
	count := length(columns[0].values)
	if count == 0 {
		return nil
	}
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	into := `INSERT INTO ` + table + ` (` + strings.Join(names, `, `) + `) `
	if d.postgres {
		from, args := d.arrays(`added`, columns)
		_, err := tx.ExecContext(ctx, d.bind(into+`SELECT * FROM `+from), args...)
		return err
	}
	statement, err := tx.PrepareContext(ctx, into+`VALUES (?`+strings.Repeat(`, ?`, len(columns)-1)+`)`)
	if err != nil {
		return err
	}
	defer statement.Close()
	args := make([]any, len(columns))
	for n := range count {
		for i, c := range columns {
			args[i] = valueAt(c.values, n)
		}
		if _, err := statement.ExecContext(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// bind returns a statement with its parameters as the database numbers them. Statements have no ? but
// parameters: values are never part of them.
func (d dialect) bind(text string) string {
	if !d.postgres {
		return text
	}
	var bound strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(text, `?`)
		bound.WriteString(before)
		if !found {
			return bound.String()
		}
		bound.WriteString(`$` + strconv.Itoa(n))
		text = after
	}
}
