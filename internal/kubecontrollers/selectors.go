package kubecontrollers

import (
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

// For each event of a pod without an owner, upstream's listers parse the selectors of all
// objects of a namespace, in handlers that serve all spaces. Those here parse a selector when
// its object is written, and look at those alone that name a label of the pod, as they are.

// selecting finds the objects whose selectors match labels.
type selecting[T metav1.Object] struct {
	indexer  cache.Indexer
	selector func(T) *metav1.LabelSelector
	// events, if not nil, are the objects' debts: the controller looks at each that selects a pod
	// afterwards.
	events *fairInformer
}

// taking returns the same for events of pods that take turns, and the informer to offer.
func (s selecting[T]) taking(t *debts, informer cache.SharedIndexInformer) (selecting[T], *fairInformer) {
	s.events = t.informer(informer, t.showParked())
	return s, s.events
}

// bySelector is the index of objects by their namespace and a label that they require.
const bySelector = "tenantry.io/selector"

// newSelecting adds the index to an informer. A nil selector matches nothing.
func newSelecting[T metav1.Object](informer cache.SharedIndexInformer, selector func(T) *metav1.LabelSelector) (selecting[T], error) {
	s := selecting[T]{indexer: informer.GetIndexer(), selector: selector}
	if _, exists := s.indexer.GetIndexers()[bySelector]; exists {
		return s, nil
	}
	return s, informer.AddIndexers(cache.Indexers{bySelector: s.indexed})
}

// indexed returns the value of an object in the index, none for one that matches nothing.
func (s selecting[T]) indexed(obj any) ([]string, error) {
	object, ok := obj.(T)
	if !ok {
		return nil, nil
	}
	selector := s.selector(object)
	if selector == nil {
		return nil, nil
	}
	if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
		return nil, nil // upstream passes over it
	}
	if len(selector.MatchLabels) == 0 {
		return []string{object.GetNamespace()}, nil
	}
	key := slices.Min(slices.Collect(maps.Keys(selector.MatchLabels))) // the same each time
	return []string{labelValue(object.GetNamespace(), key, selector.MatchLabels[key])}, nil
}

func labelValue(namespace, key, value string) string { return namespace + "/" + key + "=" + value }

// errNoneSelects is for callers that ask for nothing but whether there is an error.
var errNoneSelects = errors.New("no object selects these labels")

// matching returns the objects of a namespace that select labels, or an error if there are
// none.
func (s selecting[T]) matching(namespace string, set labels.Set) ([]T, error) {
	found, err := s.matchingAt(nil, namespace, set)
	for key, value := range set {
		if err == nil {
			found, err = s.matchingAt(found, labelValue(namespace, key, value), set)
		}
	}
	if err == nil && len(found) == 0 {
		err = errNoneSelects
	}
	return found, err
}

// matchingAt appends those with a value in the index.
func (s selecting[T]) matchingAt(found []T, value string, set labels.Set) ([]T, error) {
	objects, err := s.indexer.ByIndex(bySelector, value)
	for _, obj := range objects {
		if object, ok := obj.(T); ok && matches(s.selector(object), set) {
			found = append(found, object)
		}
	}
	return found, err
}

// labelled returns what selects a pod that has labels.
func (s selecting[T]) labelled(pod *corev1.Pod) (found []T, err error) {
	if len(pod.Labels) == 0 {
		return nil, errNoneSelects
	}
	if s.events == nil {
		return s.matching(pod.Namespace, pod.Labels)
	}
	if !s.events.look(pod.Namespace, func() { found, err = s.matching(pod.Namespace, pod.Labels) }) {
		return nil, errNoneSelects
	}
	found = slices.DeleteFunc(found, func(object T) bool { return s.events.delay(nil, object) })
	if err == nil && len(found) == 0 {
		err = errNoneSelects
	}
	return found, err
}

// matches reports what a valid selector would if it were parsed.
func matches(selector *metav1.LabelSelector, set labels.Set) bool {
	if selector == nil {
		return false
	}
	for key, want := range selector.MatchLabels {
		if value, has := set[key]; !has || value != want {
			return false
		}
	}
	for i := range selector.MatchExpressions {
		if !fulfils(&selector.MatchExpressions[i], set) {
			return false
		}
	}
	return true
}

func fulfils(r *metav1.LabelSelectorRequirement, set labels.Set) bool {
	value, has := set[r.Key]
	switch r.Operator {
	case metav1.LabelSelectorOpIn:
		return has && slices.Contains(r.Values, value)
	case metav1.LabelSelectorOpNotIn:
		return !has || !slices.Contains(r.Values, value)
	case metav1.LabelSelectorOpExists:
		return has
	case metav1.LabelSelectorOpDoesNotExist:
		return !has
	default:
		return false
	}
}
