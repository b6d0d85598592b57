package properties

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	podv1 "k8s.io/kubernetes/pkg/api/v1/pod"
)

// The relations. Each goes from the object that says so to another one.
const (
	// OwnedBy is from an object to those that its owner references name by their UIDs.
	OwnedBy = "ownedBy"
	// AttachedTo is from a pod to the ConfigMaps, Secrets and claims that it mounts or reads.
	AttachedTo = "attachedTo"
	// runsOn is from a pod to its node.
	runsOn = "runsOn"
	// boundTo is from a claim to its volume.
	boundTo = "boundTo"
	// UsedBy is from a Service to the pods that it selects.
	UsedBy = "usedBy"
)

// Link says which object one is related to, by its UID or its place.
type Link struct {
	Relation        string
	UID             string
	Resource        schema.GroupResource
	Namespace, Name string
}

// maxLinks is how many links of an object are known.
const maxLinks = 200

// Resources that links lead to.
var (
	configMaps = schema.GroupResource{Resource: "configmaps"}
	claims     = schema.GroupResource{Resource: "persistentvolumeclaims"}
	volumes    = schema.GroupResource{Resource: "persistentvolumes"}
	nodes      = schema.GroupResource{Resource: "nodes"}
)

// Links returns which objects an object says that it is related to, each once.
func Links(obj runtime.Object) []Link {
	c := &links{}
	if accessor, ok := obj.(metav1.Object); ok {
		c.namespace = accessor.GetNamespace()
		for _, owner := range accessor.GetOwnerReferences() {
			c.add(Link{Relation: OwnedBy, UID: string(owner.UID)})
		}
	}
	switch obj := obj.(type) {
	case *corev1.Pod:
		c.pod(&obj.Spec)
	case *corev1.PersistentVolumeClaim:
		c.add(Link{Relation: boundTo, Resource: volumes, Name: obj.Spec.VolumeName})
	}
	return c.all
}

// maxSelector is how many labels of a selector are known. More than that of a pod are not.
const maxSelector = 200

// Selector returns which pods of its namespace an object uses, nil if it uses none, or by more labels than are known.
func Selector(obj runtime.Object) map[string]string {
	if service, ok := obj.(*corev1.Service); ok && len(service.Spec.Selector) <= maxSelector {
		return service.Spec.Selector
	}
	return nil
}

// links collects the links of one object.
type links struct {
	namespace string
	all       []Link
}

func (c *links) add(link Link) {
	if link.UID == "" && link.Name == "" || len(c.all) == maxLinks || slices.Contains(c.all, link) {
		return
	}
	c.all = append(c.all, link)
}

func (c *links) attached(resource schema.GroupResource, name string) {
	c.add(Link{Relation: AttachedTo, Resource: resource, Namespace: c.namespace, Name: name})
}

func (c *links) pod(spec *corev1.PodSpec) {
	c.add(Link{Relation: runsOn, Resource: nodes, Name: spec.NodeName})
	for i := range spec.Volumes {
		c.volume(&spec.Volumes[i].VolumeSource)
	}
	for _, secret := range spec.ImagePullSecrets {
		c.attached(secrets, secret.Name)
	}
	podv1.VisitContainers(spec, podv1.AllContainers, func(container *corev1.Container, _ podv1.ContainerType) bool {
		c.environment(container.EnvFrom, container.Env)
		return true
	})
}

func (c *links) volume(v *corev1.VolumeSource) {
	switch {
	case v.ConfigMap != nil:
		c.attached(configMaps, v.ConfigMap.Name)
	case v.Secret != nil:
		c.attached(secrets, v.Secret.SecretName)
	case v.PersistentVolumeClaim != nil:
		c.attached(claims, v.PersistentVolumeClaim.ClaimName)
	case v.Projected != nil:
		for _, source := range v.Projected.Sources {
			if source.ConfigMap != nil {
				c.attached(configMaps, source.ConfigMap.Name)
			}
			if source.Secret != nil {
				c.attached(secrets, source.Secret.Name)
			}
		}
	}
}

// environment looks at the names of what variables are read from, and at nothing else of them.
func (c *links) environment(all []corev1.EnvFromSource, single []corev1.EnvVar) {
	for _, from := range all {
		if from.ConfigMapRef != nil {
			c.attached(configMaps, from.ConfigMapRef.Name)
		}
		if from.SecretRef != nil {
			c.attached(secrets, from.SecretRef.Name)
		}
	}
	for _, variable := range single {
		if variable.ValueFrom == nil {
			continue
		}
		if from := variable.ValueFrom.ConfigMapKeyRef; from != nil {
			c.attached(configMaps, from.Name)
		}
		if from := variable.ValueFrom.SecretKeyRef; from != nil {
			c.attached(secrets, from.Name)
		}
	}
}
