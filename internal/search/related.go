package search

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/search/graphql"
	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/properties"
	"github.com/tenantry/tenantry/internal/search/query"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// maxOwners is how many steps owners and what they own are followed.
	maxOwners = 3
	// maxRelated is how many related objects there are at most, on whatever page.
	maxRelated = 50_000
)

var errTooManyRelated = graphql.Refuse(errors.New("too many objects are related; use more filters, or a limit"))

var (
	pods     = schema.GroupResource{Resource: "pods"}
	services = schema.GroupResource{Resource: "services"}
)

// related returns the objects that are related to some, by their kinds, of those that are visible. Relations are
// followed from one visible object to the next, so that nothing tells of others that stand between them.
func (v *view) related(ctx context.Context, rows []index.Row, kinds []string) ([]Related, error) {
	r := &relations{view: v, found: map[index.Ref]*relative{}, known: map[index.Ref]bool{}}
	in := map[tenant.Name][]index.Row{}
	for i := range rows {
		r.known[rows[i].Ref()] = true
		in[rows[i].Space] = append(in[rows[i].Space], rows[i])
	}
	for _, space := range sortedKeys(in) { // no relation leaves a space
		r.scope = v.scopes[space]
		if err := r.follow(ctx, in[space]); err != nil {
			return nil, err
		}
	}
	return r.byKind(kinds), nil
}

// relative is a related object.
type relative struct {
	row index.Row
	by  sets.Set[string]
}

// relations collects related objects.
type relations struct {
	*view
	// scope is the space in which they are looked for.
	scope index.Scope
	// known are those whose relatives are looked for.
	known map[index.Ref]bool
	found map[index.Ref]*relative
}

// follow looks for the relatives of rows and, by owners, for theirs.
func (r *relations) follow(ctx context.Context, rows []index.Row) error {
	owners, owned, err := r.step(ctx, rows, func(string) bool { return true }, true, true)
	isOwner := func(relation string) bool { return relation == properties.OwnedBy }
	for range maxOwners - 1 {
		if err == nil && len(owners) > 0 {
			owners, _, err = r.step(ctx, owners, isOwner, true, false)
		}
		if err == nil && len(owned) > 0 {
			_, owned, err = r.step(ctx, owned, isOwner, false, true)
		}
	}
	return err
}

// step looks for those to which rows have links, and for those that have links to them. It returns the owners and what
// is owned of what was not known.
func (r *relations) step(ctx context.Context, rows []index.Row, wanted func(relation string) bool, to, from bool) (owners, owned []index.Row, err error) {
	e := newEnds(rows, wanted, to, from)
	err = r.snapshot.Related(ctx, r.scope, e.ends, func(row *index.Row) (kept bool, err error) {
		forward, backward := e.relationsOf(row)
		ref := row.Ref()
		if len(forward)+len(backward) == 0 || r.known[ref] {
			return false, nil
		}
		if kept = r.found[ref] == nil; kept {
			if len(r.found) == maxRelated {
				return false, errTooManyRelated
			}
			r.found[ref] = &relative{row: *row, by: sets.New[string]()}
			if slices.Contains(forward, properties.OwnedBy) {
				owners = append(owners, *row)
			}
			if slices.Contains(backward, properties.OwnedBy) {
				owned = append(owned, *row)
			}
		}
		r.found[ref].by.Insert(forward...).Insert(backward...)
		return kept, nil
	})
	if err != nil {
		return nil, nil, unreadable(err)
	}
	return owners, owned, nil
}

// ends are what one step looks for.
type ends struct {
	ends index.Ends
	// targets are the relations of links by where they lead to, and sources are where links to the rows lead to.
	targets map[target][]string
	sources map[string]bool
	// selecting are the rows that select pods, and selected those that may be selected, by their namespaces.
	selecting, selected map[string][]*index.Row
	wanted              func(relation string) bool
}

// target is where a link leads to, and the namespace of the object that has it if it leads to its owner.
type target struct{ to, namespace string }

func newEnds(rows []index.Row, wanted func(relation string) bool, to, from bool) *ends {
	e := &ends{ends: index.Ends{Owners: map[string][]string{}, Links: map[string][]string{}}, targets: map[target][]string{}, sources: map[string]bool{}, selecting: map[string][]*index.Row{}, selected: map[string][]*index.Row{}, wanted: wanted}
	for i := range rows {
		row := &rows[i]
		if to {
			e.addTargets(row)
		}
		if from {
			e.addSources(row)
		}
		if wanted(properties.UsedBy) {
			if len(row.Selector) > 0 {
				e.selecting[row.Namespace] = append(e.selecting[row.Namespace], row)
			}
			if row.Resource == pods {
				e.selected[row.Namespace] = append(e.selected[row.Namespace], row)
			}
		}
	}
	e.ends.Of = map[schema.GroupResource][]string{
		pods: slices.Collect(maps.Keys(e.selecting)), services: slices.Collect(maps.Keys(e.selected)),
	}
	return e
}

// anywhere stands for all namespaces, because no namespace has the name.
const anywhere = "*"

func (e *ends) addTargets(row *index.Row) {
	for i := range row.Links {
		link := &row.Links[i]
		if !e.wanted(link.Relation) {
			continue
		}
		if uid, ok := link.UID(); ok {
			if e.addTarget(target{link.To, row.Namespace}, link.Relation) {
				e.ends.Owners[row.Namespace] = append(e.ends.Owners[row.Namespace], uid)
			}
			e.addTarget(target{link.To, anywhere}, link.Relation)
		} else if place, ok := link.Place(); ok && e.addTarget(target{to: link.To}, link.Relation) {
			e.ends.Places = append(e.ends.Places, place)
		}
	}
}

// addTarget notes a relation, and reports whether its target is new.
func (e *ends) addTarget(t target, relation string) bool {
	isNew := e.targets[t] == nil
	if !slices.Contains(e.targets[t], relation) {
		e.targets[t] = append(e.targets[t], relation)
	}
	return isNew
}

func (e *ends) addSources(row *index.Row) {
	for _, to := range linksTo(row) {
		e.sources[to] = true
		e.ends.Links[row.Namespace] = append(e.ends.Links[row.Namespace], to)
	}
}

// linksTo returns where links to a row lead to.
func linksTo(row *index.Row) []string {
	to := []string{index.ToPlace(row.Resource, row.Namespace, row.Name)}
	if row.UID != "" {
		to = append(to, index.ToUID(row.UID))
	}
	return to
}

// relationsOf returns the relations of rows to one that was found, and of that one to rows.
func (e *ends) relationsOf(row *index.Row) (forward, backward []string) {
	forward = slices.Clone(e.targets[target{to: index.ToPlace(row.Resource, row.Namespace, row.Name)}])
	if row.UID != "" {
		forward = append(forward, e.targets[target{index.ToUID(row.UID), cmp.Or(row.Namespace, anywhere)}]...)
	}
	for _, link := range row.Links {
		if e.sources[link.To] && e.wanted(link.Relation) {
			backward = append(backward, link.Relation)
		}
	}
	selects := func(by, what *index.Row) bool { return len(by.Selector) > 0 && isIn(by.Selector, what.Labels) }
	if row.Resource == pods && slices.ContainsFunc(e.selecting[row.Namespace], func(by *index.Row) bool { return selects(by, row) }) ||
		slices.ContainsFunc(e.selected[row.Namespace], func(pod *index.Row) bool { return selects(row, pod) }) {
		forward = append(forward, properties.UsedBy)
	}
	return forward, backward
}

func isIn(part, whole map[string]string) bool {
	for key, value := range part {
		if is, ok := whole[key]; !ok || is != value {
			return false
		}
	}
	return true
}

// byKind returns what was found of some kinds, of all if there are none, and has it shown.
func (r *relations) byKind(kinds []string) []Related {
	folded := sets.New[string]() // there may be as many as a request has room for
	for _, kind := range kinds {
		folded.Insert(query.Fold(kind))
	}
	refs := slices.SortedFunc(maps.Keys(r.found), func(a, b index.Ref) int {
		return cmp.Or(cmp.Compare(r.found[a].row.Kind, r.found[b].row.Kind), a.Compare(b))
	})
	all, shown := []Related{}, 0
	for _, ref := range refs {
		relative := r.found[ref]
		if len(kinds) > 0 && !folded.Has(query.Fold(relative.row.Kind)) {
			continue
		}
		if last := len(all) - 1; last < 0 || all[last].Kind != relative.row.Kind {
			all = append(all, Related{Kind: relative.row.Kind, Items: []Item{}})
		}
		of := &all[len(all)-1]
		of.Count++
		if shown++; shown <= MaxLimit {
			item := newItem(&relative.row)
			item.Relations = sets.List(relative.by)
			of.Items = append(of.Items, item)
			r.show(&relative.row)
		}
	}
	return all
}
