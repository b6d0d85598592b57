package index

import "strings"

// version is that of the tables and of what stands in them. An index of another one is built anew.
const version = 5

// tables returns what makes the tables. Each way to objects leads with what a user may see: a range, or the name of
// an object in an area. So no query visits what its user may not see, or what is in another space.
//
//   - A range has the objects of one kind, resource, namespace and space, and counts them, and those of it that are
//     left out.
//   - An area is all of one resource in a space.
//   - Objects have what rows are ordered by, bodies what is shown. home is the range of an object.
//   - Texts are what keywords are looked for in, those of a range one behind the other. g0 to g3 are the signature.
//     PostgreSQL has no such tables, and the signatures in the index.
//   - Properties are found by their object, to compare them, and by their value, to find objects. whole is the value if
//     that is too long for an index, and empty otherwise.
//   - Omitted are the keys of objects that are left out, because their space has too many. whole is the key if it is
//     stored in another form.
//   - Aside are the objects of which nothing but the name is there, because the database has refused the rest.
func (d dialect) tables() []string {
	types := strings.NewReplacer(`ID`, d.either(`INTEGER`, `BIGINT`)+` PRIMARY KEY`, `INT`, `BIGINT NOT NULL`, `TXT`, d.text()+` NOT NULL`,
		`UNROWED`, d.either(`WITHOUT ROWID`, ``))
	statements := []string{
		`CREATE TABLE state (one ID, source TXT, epoch INT, revision INT, behind TXT, mark TXT, complete INT, holder TXT, renewed INT)`,
		`CREATE TABLE ranges (id ID, area INT, space TXT, resource TXT, namespace TXT, kind TXT, objects INT, omitted INT)`,
		`CREATE UNIQUE INDEX ranges_place ON ranges (space, resource, namespace, kind)`,
		`CREATE INDEX ranges_omitted ON ranges (space) WHERE omitted > 0`,
		`CREATE TABLE omitted (key TXT, whole TXT, home INT, name TXT, PRIMARY KEY (key)) UNROWED`,
		`CREATE INDEX omitted_home ON omitted (home, name)`,
		`CREATE TABLE objects (id ID, key TXT, sum INT, home INT, area INT, name TXT, created INT)`,
		`CREATE INDEX objects_key ON objects (key)`,
		`CREATE INDEX objects_name ON objects (area, name)`,
		`CREATE INDEX objects_scan ON objects (home, name, created, id)`,
		`CREATE TABLE bodies (id ID, details TXT)`,
		`CREATE TABLE texts (home INT, object INT, created INT, g0 INT, g1 INT, g2 INT, g3 INT, text TXT, PRIMARY KEY (home, object)` + d.either(`)`, ` INCLUDE (created, g0, g1, g2, g3))`) + ` UNROWED`,
		`CREATE TABLE properties (object INT, home INT, created INT, name TXT, value TXT, whole TXT, PRIMARY KEY (object, name, value)) UNROWED`,
		`CREATE TABLE aside (object ID, space TXT, home INT)`,
		`CREATE INDEX aside_space ON aside (space)`,
		`CREATE INDEX properties_value ON properties (home, name, value, object, created)`,
	}
	for i := range statements {
		create, columns, table := strings.Cut(statements[i], `(`)
		if table && strings.HasPrefix(create, `CREATE TABLE`) {
			statements[i] = create + `(` + types.Replace(columns)
		}
	}
	return statements
}

// filled are the tables that are emptied before an index is built anew.
var filled = []string{`ranges`, `objects`, `bodies`, `texts`, `properties`, `aside`, `omitted`}

// emptyState is the state of an index in which nothing is.
const emptyState = `INSERT INTO state (one, source, epoch, revision, behind, mark, complete, holder, renewed) VALUES (1, '', 0, 0, '', '', 0, '', 0)`
