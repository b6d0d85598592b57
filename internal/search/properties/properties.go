package properties

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	podv1 "k8s.io/kubernetes/pkg/api/v1/pod"
	podsecurity "k8s.io/pod-security-admission/admission"

	"github.com/tenantry/tenantry/internal/search/query"
	"github.com/tenantry/tenantry/internal/text"
)

// The names of properties that objects of many kinds have.
const (
	Status    = "status"
	Condition = "condition"
	Image     = "image"
	Owner     = "owner"
)

// What is known of an object at most: how many properties, and how many bytes of each.
const (
	maxProperties = 64
	maxValue      = 1024
)

// reserved are names that no column and no configuration gives anything to: they have meanings of their own.
var reserved = []string{
	query.Created, "age", "annotation", "apigroup", "kind", "label", "name", "namespace", "resource", "space", "uid",
}

var secrets = schema.GroupResource{Resource: "secrets"}

// Reader reads objects. It is used by one goroutine.
type Reader struct {
	configured map[schema.GroupResource][]column
}

// NewReader returns a reader that also reads what is configured.
func NewReader(configured ...Configured) *Reader {
	r := &Reader{configured: map[schema.GroupResource][]column{}}
	for _, c := range configured {
		r.configured[c.resource] = append(r.configured[c.resource], c.column)
	}
	return r
}

// Of returns the properties of an object of a resource, each once. columns are those of its definition. An
// object that cannot be printed has those that could be read before.
func (r *Reader) Of(resource schema.GroupResource, obj runtime.Object, columns *Columns) (found []query.Property, err error) {
	if resource == secrets {
		return nil, nil
	}
	c := &collection{}
	defer func() {
		found = c.properties
		if cause := recover(); cause != nil { // printers are made for objects that have been validated
			err = fmt.Errorf("reading the properties of a %s: %v", resource, cause)
		}
	}()
	c.owners(obj)
	c.conditions(obj)
	c.images(obj)
	if custom, ok := obj.(*unstructured.Unstructured); ok {
		c.columns(custom.Object, columns.of(custom.GetAPIVersion()))
		c.phase(custom)
	} else {
		c.printed(obj)
	}
	return nil, r.configure(c, resource, obj)
}

func (r *Reader) configure(c *collection, resource schema.GroupResource, obj runtime.Object) error {
	columns := r.configured[resource]
	if len(columns) == 0 {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return fmt.Errorf("reading the configured properties of a %s: %w", resource, err)
	}
	c.columns(content, columns)
	return nil
}

// collection is what has been read of one object.
type collection struct{ properties []query.Property }

// nothing is what kubectl prints where there is nothing.
var nothing = []string{"", "<none>", "<unset>", "<unknown>", "<nil>", "<invalid>"}

func (c *collection) add(name, value string, typ query.Type) {
	value = query.Text(text.Cut(value, maxValue))
	p := query.Property{Name: name, Value: value, Type: typ}
	if len(c.properties) == maxProperties || name == "" || slices.Contains(nothing, value) || slices.Contains(c.properties, p) {
		return
	}
	c.properties = append(c.properties, p)
}

func (c *collection) has(name string) bool {
	return slices.ContainsFunc(c.properties, func(p query.Property) bool { return p.Name == name })
}

// nameOf returns the name of the property of a column: "Port(s)" is "ports", and "Nominated Node" is
// "nominated-node". It is empty if the column has none.
func nameOf(column string) string {
	if len(column) > 63 {
		return ""
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		case r == ' ', r == '/':
			return '-'
		default:
			return -1
		}
	}, strings.ToLower(column))
	name = strings.Trim(name, "-._")
	if slices.Contains(reserved, name) {
		return ""
	}
	return name
}

func (c *collection) owners(obj runtime.Object) {
	if accessor, ok := obj.(metav1.Object); ok {
		for _, owner := range accessor.GetOwnerReferences() {
			c.add(Owner, owner.Kind+"/"+owner.Name, query.String)
		}
	}
}

// conditions adds TYPE=STATUS of each condition.
func (c *collection) conditions(obj runtime.Object) {
	if custom, ok := obj.(*unstructured.Unstructured); ok {
		conditions, _, _ := unstructured.NestedFieldNoCopy(custom.Object, "status", "conditions")
		all, _ := conditions.([]any)
		for _, one := range all {
			condition, _ := one.(map[string]any)
			c.condition(condition["type"], condition["status"])
		}
		return
	}
	// All of upstream's types have them in one form, without a type of its own.
	conditions := field(field(reflect.Indirect(reflect.ValueOf(obj)), "Status"), "Conditions")
	if !conditions.IsValid() || conditions.Kind() != reflect.Slice {
		return
	}
	for i := range conditions.Len() {
		typ, status := field(conditions.Index(i), "Type"), field(conditions.Index(i), "Status")
		if typ.IsValid() && status.IsValid() {
			c.condition(typ.String(), status.String())
		}
	}
}

func field(v reflect.Value, name string) reflect.Value {
	if !v.IsValid() || v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return v.FieldByName(name)
}

func (c *collection) condition(typ, status any) {
	t, isText := typ.(string)
	s, alsoText := status.(string)
	if isText && alsoText && t != "" {
		c.add(Condition, t+"="+s, query.String)
	}
}

func (c *collection) images(obj runtime.Object) {
	_, spec, err := podsecurity.DefaultPodSpecExtractor{}.ExtractPodSpec(obj)
	if err != nil || spec == nil { // it makes no pods
		return
	}
	podv1.VisitContainers(spec, podv1.AllContainers, func(container *corev1.Container, _ podv1.ContainerType) bool {
		c.add(Image, container.Image, query.String)
		return true
	})
}

// phase adds the phase of a custom resource as its status, if it has no other one.
func (c *collection) phase(custom *unstructured.Unstructured) {
	if c.has(Status) {
		return
	}
	if phase, found, err := unstructured.NestedString(custom.Object, "status", "phase"); err == nil && found {
		c.add(Status, phase, query.String)
	}
}
