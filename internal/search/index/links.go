package index

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/search/query"
)

// Link says that an object has a relation to another one, which may not be there.
type Link struct {
	Relation string `json:"r"`
	// To is what ToUID or ToPlace returns.
	To string `json:"to"`
}

// ToUID returns what leads to the object of a UID.
func ToUID(uid string) string { return toUID + uid }

const toUID = "uid "

// UID returns the UID that the link leads to, and false if it leads to a place.
func (l *Link) UID() (string, bool) { return strings.CutPrefix(l.To, toUID) }

// Place returns the place that the link leads to.
func (l *Link) Place() (After, bool) {
	parts := strings.SplitN(l.To, "/", 3)
	if len(parts) != 3 {
		return After{}, false
	}
	return After{Resource: parts[0], Namespace: parts[1], Name: parts[2]}, true
}

// ToPlace returns what leads to the object at a place.
func ToPlace(resource schema.GroupResource, namespace, name string) string {
	return resource.String() + "/" + namespace + "/" + name
}

// propertyLink is the property that has where links lead to. No filter has a name with upper case.
const propertyLink = "Link"

// Ends are objects that links lead to or come from.
type Ends struct {
	// Places are those of the objects themselves.
	Places []After
	// Owners are the UIDs of objects by the namespaces of what they own: they are in the same one or in none.
	Owners map[string][]string
	// Links are what leads to objects, by the namespaces of these: what has such links is in the same one, or in any if
	// that is none.
	Links map[string][]string
	// Of are the namespaces of which all objects of a resource are wanted.
	Of map[schema.GroupResource][]string
}

// Related calls each with the objects that are some ends, of those that are visible. An object may come several times.
// What each keeps is counted as read for the answer: it returns whether it does. There is none behind its first error.
func (s *Snapshot) Related(ctx context.Context, scope Scope, ends Ends, each func(row *Row) (kept bool, err error)) error {
	chosen, v, _, err := s.chosen(ctx, []Scope{scope}, query.Query{})
	if err == nil {
		r := &relating{selection: chosen, visible: v, keep: each}
		err = r.all(ctx, ends)
	}
	if err != nil {
		return s.failed("reading relations from the search index", err)
	}
	return nil
}

// relating looks for ends among what is visible.
type relating struct {
	*selection
	*visible
	keep func(row *Row) (kept bool, err error)
}

func (r *relating) all(ctx context.Context, ends Ends) error {
	if err := r.byPlaces(ctx, ends.Places); err != nil {
		return err
	}
	for namespace, uids := range ends.Owners {
		part := r.part(func(p *rangeKey) bool { return p.namespace == namespace || p.namespace == "" })
		if err := r.byProperty(ctx, part, propertyUID, uids); err != nil {
			return err
		}
	}
	for namespace, links := range ends.Links {
		part := r.part(func(p *rangeKey) bool { return p.namespace == namespace || namespace == "" })
		if err := r.byProperty(ctx, part, propertyLink, links); err != nil {
			return err
		}
	}
	for resource, namespaces := range ends.Of {
		if err := r.inNamespaces(ctx, resource.String(), namespaces); err != nil {
			return err
		}
	}
	return nil
}

const relatedColumns = `SELECT '' AS k, r.pos AS pos, g.kind, o.name, o.created, b.details FROM `

// joined is what follows objects o of the table r.
func (r *relating) joined() string {
	return r.join() + `bodies b ON b.id = o.id` + r.join() + `ranges g ON g.id = o.home`
}

func (r *relating) rows(ctx context.Context, text string, args []any) error {
	return queryEach(ctx, r.tx, r.bind(text), args, func(rows *sql.Rows) error { return r.visit(r.visible, rows) })
}

// visit reads one row of a statement.
func (r *relating) visit(v *visible, rows *sql.Rows) error {
	row, size, err := r.row(v, rows)
	if err != nil {
		return err
	}
	if kept, err := r.keep(row); err != nil || !kept {
		return err
	}
	return r.budget.take(size)
}

// byPlaces looks up the objects at places, each in the visible ranges that it may be in.
func (r *relating) byPlaces(ctx context.Context, places []After) error {
	at := map[After][]string{} // names by resource and namespace
	for _, p := range places {
		in := After{Resource: p.Resource, Namespace: p.Namespace}
		at[in] = append(at[in], storedName(p.Name))
	}
	var ids, positions, objects, objectAt []int64
	var names, objectNames []string
	for i, id := range r.ranges {
		for _, each := range at[r.placeAt(r.rangeAt[i])] {
			ids, positions, names = append(ids, id), append(positions, r.rangeAt[i]), append(names, each)
		}
	}
	for i, id := range r.objects {
		for _, each := range at[r.placeAt(r.objectAt[i])] {
			objects, objectAt, objectNames = append(objects, id), append(objectAt, r.objectAt[i]), append(objectNames, each)
		}
	}
	if len(ids) > 0 {
		list, args := r.list(`r`, column{`id`, ids}, column{`pos`, positions}, column{`name`, names})
		if err := r.rows(ctx, relatedColumns+list+r.join()+`objects o`+r.by(`objects_scan`)+` ON o.home = r.id AND o.name = r.name`+r.joined(), args); err != nil {
			return err
		}
	}
	if len(objects) == 0 {
		return nil
	}
	list, args := r.list(`r`, column{`id`, objects}, column{`pos`, objectAt}, column{`name`, objectNames})
	return r.rows(ctx, relatedColumns+list+r.join()+`objects o ON o.id = r.id AND o.name = r.name`+r.joined(), args)
}

func (r *relating) placeAt(position int64) After {
	p := &r.keys[position]
	return After{Resource: p.resource, Namespace: p.namespace}
}

// byProperty looks up the objects that have one of some values of a property, in a part of what is visible.
func (r *relating) byProperty(ctx context.Context, in *visible, property string, values []string) error {
	wanted := storedNames(values)
	if len(in.ranges) > 0 {
		list, args := r.list(`r`, column{`id`, in.ranges}, column{`pos`, in.rangeAt})
		of, more := r.list(`t`, column{`value`, wanted})
		text := relatedColumns + list + ` CROSS JOIN ` + of + r.join() + `properties d` + r.by(`properties_value`) +
			` ON d.home = r.id AND d.name = ? AND d.value = t.value` + r.join() + `objects o ON o.id = d.object` + r.joined()
		if err := r.rows(ctx, text, append(append(args, more...), property)); err != nil {
			return err
		}
	}
	if len(in.objects) == 0 {
		return nil
	}
	list, args := r.list(`r`, column{`id`, in.objects}, column{`pos`, in.objectAt})
	of, more := r.list(`t`, column{`value`, wanted})
	text := relatedColumns + list + r.join() + `objects o ON o.id = r.id` + r.joined() +
		` WHERE EXISTS (SELECT 1 FROM properties p WHERE p.object = o.id AND p.name = ? AND p.value IN (SELECT t.value FROM ` + of + `))`
	return r.rows(ctx, text, append(append(args, property), more...))
}

func storedNames(values []string) []string {
	all := make([]string, 0, len(values))
	for _, value := range values {
		all = append(all, storedName(value))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// inNamespaces returns all objects of a resource in some namespaces.
func (r *relating) inNamespaces(ctx context.Context, resource string, namespaces []string) error {
	part := r.part(func(p *rangeKey) bool { return p.resource == resource && slices.Contains(namespaces, p.namespace) })
	return r.selection.each(ctx, r.parts(part, true, false), `SELECT '' AS k, r.pos AS pos, g.kind, o.name, o.created, b.details`, func(lookedAt) string { return r.joined() }, ``, nil, func(rows *sql.Rows) error { return r.visit(part, rows) })
}
