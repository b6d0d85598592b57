package index

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/search/query"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Shared stands in Row.Space for objects that every tenant's space has without storing them. No
// space has this name.
const Shared tenant.Name = ""

// Row is what is known of an object: metadata, and what kubectl prints of it. Other parts of specs and data, and
// managed fields, are not there; of a Secret there is nothing but metadata.
type Row struct {
	Space           tenant.Name
	Resource        schema.GroupResource
	Namespace, Name string
	Kind            string
	// Created is in seconds since 1970, zero if it is not known.
	Created int64
	Details
	// Key is what it is ordered by before its place, if it was selected in an order.
	Key string
}

// Ref says which object of which space a row is of.
type Ref struct {
	Space tenant.Name
	objects.Ref
}

// Ref returns which object the row is of.
func (r *Row) Ref() Ref {
	return Ref{r.Space, objects.Ref{Resource: r.Resource, Namespace: r.Namespace, Name: r.Name}}
}

// Compare orders objects as rows are ordered without another order.
func (r Ref) Compare(other Ref) int {
	return cmp.Or(strings.Compare(string(r.Space), string(other.Space)), strings.Compare(r.Resource.String(), other.Resource.String()),
		strings.Compare(r.Namespace, other.Namespace), strings.Compare(r.Name, other.Name))
}

// Details is what is not part of the place of an object.
type Details struct {
	UID         string            `json:"uid,omitempty"`
	Status      string            `json:"status,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Properties are others than those above.
	Properties []query.Property `json:"properties,omitempty"`
	// Aside is whether there is no more than the name, because the database has refused the rest.
	Aside bool `json:"aside,omitempty"`
	// Links are the objects that it says it is related to, and Selector the labels of the pods of its namespace that it
	// uses.
	Links    []Link            `json:"links,omitempty"`
	Selector map[string]string `json:"selector,omitempty"`
}

// NewRow returns the row of an object of a resource in a space, with those of its annotations that are
// allowed, and with properties.
func NewRow(space tenant.Name, resource schema.GroupResource, obj runtime.Object, annotations []string, properties []query.Property) (Row, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return Row{}, fmt.Errorf("reading the metadata of %T: %w", obj, err)
	}
	row := Row{
		Space: space, Resource: resource, Namespace: accessor.GetNamespace(), Name: accessor.GetName(),
		Kind:    obj.GetObjectKind().GroupVersionKind().Kind,
		Details: Details{UID: string(accessor.GetUID()), Labels: texts(accessor.GetLabels())},
	}
	if created := accessor.GetCreationTimestamp(); !created.IsZero() {
		row.Created = created.Unix()
	}
	for _, key := range annotations {
		if value, ok := accessor.GetAnnotations()[key]; ok {
			if row.Annotations == nil {
				row.Annotations = map[string]string{}
			}
			row.Annotations[key] = query.Text(value)
		}
	}
	row.Kind = query.Text(row.Kind)
	for _, p := range properties {
		if p.Name == propertyStatus && row.Status == "" {
			row.Status = p.Value
		} else {
			row.Properties = append(row.Properties, p)
		}
	}
	return row, nil
}

// maxLabels is how many labels of an object are searched and shown: the first of them, in the order of their keys. One
// goroutine writes the objects of all tenants, and each label takes it some time.
const maxLabels = 200

// texts returns labels as they are searched.
func texts(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	result := make(map[string]string, min(len(m), maxLabels))
	for _, key := range slices.Sorted(maps.Keys(m))[:min(len(m), maxLabels)] {
		result[query.Text(key)] = query.Text(m[key])
	}
	return result
}

// property is a value by which objects are filtered and that some do not have, or have several of.
type property struct{ name, value string }

// The names of such properties of all kinds. Labels and annotations are compared as KEY=VALUE.
const (
	propertyLabel      = "label"
	propertyAnnotation = "annotation"
	propertyStatus     = "status"
	propertyUID        = "uid"
)

func (r *Row) properties() []property {
	var all []property
	for _, of := range []struct {
		name   string
		values map[string]string
	}{{propertyLabel, r.Labels}, {propertyAnnotation, r.Annotations}} {
		for _, key := range slices.Sorted(maps.Keys(of.values)) {
			all = append(all, property{of.name, key + "=" + of.values[key]})
		}
	}
	if r.Status != "" {
		all = append(all, property{propertyStatus, r.Status})
	}
	if r.UID != "" {
		all = append(all, property{propertyUID, r.UID})
	}
	for i := range r.Properties {
		p := &r.Properties[i]
		all = append(all, property{p.Name, p.Value})
		if ordered, ok := p.Ordered(); ok {
			all = append(all, property{p.Name + orderedSuffix, ordered})
		}
	}
	for i := range r.Links {
		all = append(all, property{propertyLink, storedName(r.Links[i].To)}) // has names as somebody has written them
	}
	return all
}

// orderedSuffix is at the end of the names of properties that have a value in the form in which it is ordered. No
// filter has such a name.
const orderedSuffix = ">"

// text returns what keywords are looked for in: all values, divided by what is in no keyword.
func (r *Row) text() string {
	values := []string{r.Kind, r.Resource.Group, r.Resource.Resource, r.Namespace, r.Name}
	for _, p := range r.properties() {
		if p.name != propertyUID && isAskedFor(p.name) { // UIDs are random, and have letters of every keyword
			values = append(values, p.value)
		}
	}
	for i := range values {
		values[i] = query.Fold(values[i])
	}
	return strings.Join(values, "\n")
}

// storedProperty is a property as the database has it: whole is its value if that is too long for an index.
type storedProperty struct{ name, value, whole string }

// stored is a row as the database has it.
type stored struct {
	Row
	// raw is the key in etcd.
	key, raw, details string
	sum               int64
}

// store returns the row of a key as it is stored.
func (r Row) store(key string) (stored, error) {
	b := body{Details: r.Details}
	if storedName(r.Name) != r.Name {
		b.Name = []byte(r.Name)
	}
	details, err := json.Marshal(b)
	if err != nil {
		return stored{}, fmt.Errorf("encoding %s %q: %w", r.Resource, r.Name, err)
	}
	sum := digest("%s\n%s\n%s\n%q\n%s\n%d\n%s", r.Space, r.Resource, r.Namespace, r.Name, r.Kind, r.Created, details)
	return stored{Row: r, key: key, details: string(details), sum: sum}, nil
}

func (s *stored) rangeKey() rangeKey {
	return rangeKey{space: s.Space, resource: s.Resource.String(), namespace: s.Namespace, kind: s.Kind}
}

// stored returns the properties, each once.
func (s *stored) stored() []storedProperty {
	var all []storedProperty
	seen := map[storedProperty]bool{}
	for _, p := range s.properties() {
		one := storedProperty{name: p.name, value: short(p.value)}
		if one.value != p.value {
			one.whole = p.value
		}
		if !seen[one] {
			seen[one] = true
			all = append(all, one)
		}
	}
	return all
}

// body is what is stored of a row beside its columns.
type body struct {
	Details
	// Name is the name, if it is stored in another form.
	Name []byte `json:"name,omitempty"`
}

func (r *Row) restore(details string) error {
	var b body
	if err := json.Unmarshal([]byte(details), &b); err != nil {
		return err
	}
	r.Details = b.Details
	if b.Name != nil {
		r.Name = string(b.Name)
	}
	return nil
}
