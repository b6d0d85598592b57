package index

import "github.com/tenantry/tenantry/internal/search/query"

// part is a part of a statement with its parameters. at is where its objects are looked at.
type part struct {
	text string
	args []any
	at   lookedAt
}

// parts returns the ways to what is visible, none if nothing is. See inRanges for those that are bare.
func (q *selection) parts(v *visible, order, bare bool) []part {
	var parts []part
	for i := range q.ways {
		parts = append(parts, q.partsBy(v, i, order, bare)...)
	}
	return parts
}

// partsBy returns those by one way.
func (q *selection) partsBy(v *visible, i int, order, bare bool) []part {
	var parts []part
	w := &q.ways[i]
	v = q.lookedAt(v, i)
	if len(v.ranges) > 0 {
		text, args := q.inRanges(v, w.in, order, bare)
		parts = append(parts, part{text, args, w.in.at})
	}
	if len(v.objects) > 0 {
		text, args := q.single(v, w.of, order)
		parts = append(parts, part{text, args, inObjects})
	}
	return parts
}

// inRanges returns the part of a statement behind columns that finds objects in ranges r. If it is bare, there is no
// more of them than where they are looked at, and objects o otherwise.
func (q *selection) inRanges(v *visible, in *condition, order, bare bool) (string, []any) {
	list, args := q.list(`r`, ordered(v.ranges, v.rangeAt, order)...)
	from, objects := ` FROM `+list+q.join(), ``
	if in.at != inObjects && (!bare || in.names) {
		objects = q.join() + `objects o ON o.id = ` + in.at.id()
	}
	switch in.at {
	case inProperties:
		on, found := finding(q.found)
		from += `properties d` + q.by(`properties_value`) + ` ON d.home = r.id` + on
		args = append(args, found...)
	case inTexts:
		from += `texts t ON t.home = r.id`
	default:
		from += `objects o` + q.by(`objects_scan`) + ` ON o.home = r.id`
	}
	return from + objects + ` WHERE true` + in.text.String(), append(args, in.args...)
}

// single is inRanges for single objects.
func (q *selection) single(v *visible, of *condition, order bool) (string, []any) {
	list, args := q.list(`r`, ordered(v.objects, v.objectAt, order)...)
	return ` FROM ` + list + q.join() + `objects o ON o.id = r.id WHERE true` + of.text.String(), append(args, of.args...)
}

// ordered are the columns of a list of ids. Their positions are needed for pages alone.
func ordered(ids, positions []int64, order bool) []column {
	if !order {
		return []column{{`id`, ids}}
	}
	return []column{{`id`, ids}, {`pos`, positions}}
}

// finding returns the condition of properties d by which a filter finds objects.
func finding(f *query.Filter) (string, []any) {
	v := &f.Any[0]
	if v.Parts == nil {
		return ` AND d.name = ? AND d.value = ?`, []any{f.Property, short(v.Text)}
	}
	return ` AND d.name = ? AND d.value >= ? AND d.value < ?`, []any{f.Property, v.Parts[0], behind(v.Parts[0])}
}
