package translate

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// References are the names of what a pod reads, in its own namespace.
type References struct {
	ConfigMaps, Secrets map[string]bool
}

// ReferencesOf returns what the host's pod for a pod reads. Its tokens are not among it.
func ReferencesOf(spec *corev1.PodSpec) References {
	r := References{ConfigMaps: map[string]bool{}, Secrets: map[string]bool{}}
	eachSource(spec, func(name *string) { r.ConfigMaps[*name] = true }, func(name *string) { r.Secrets[*name] = true })
	return r
}

// eachSource calls configMap and secret with each name of one that a pod reads, where it stands in the spec. What is
// copied to a host, and what is renamed there, is found by it alone: what it passed by would be read of the host's
// namespace, by a name that a tenant chooses. It leaves names out that are empty.
func eachSource(spec *corev1.PodSpec, configMap, secret func(name *string)) {
	visit := func(f func(*string), name *string) {
		if *name != "" {
			f(name)
		}
	}
	for i := range spec.ImagePullSecrets {
		visit(secret, &spec.ImagePullSecrets[i].Name)
	}
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if v.ConfigMap != nil {
			visit(configMap, &v.ConfigMap.Name)
		}
		if v.Secret != nil {
			visit(secret, &v.Secret.SecretName)
		}
		if v.Projected == nil {
			continue
		}
		for j := range v.Projected.Sources {
			if source := v.Projected.Sources[j].ConfigMap; source != nil {
				visit(configMap, &source.Name)
			}
			if source := v.Projected.Sources[j].Secret; source != nil {
				visit(secret, &source.Name)
			}
		}
	}
	eachContainer(spec, nil, func(c *corev1.Container, _ *field.Path) {
		for i := range c.EnvFrom {
			if from := c.EnvFrom[i].ConfigMapRef; from != nil {
				visit(configMap, &from.Name)
			}
			if from := c.EnvFrom[i].SecretRef; from != nil {
				visit(secret, &from.Name)
			}
		}
		for i := range c.Env {
			from := c.Env[i].ValueFrom
			if from != nil && from.ConfigMapKeyRef != nil {
				visit(configMap, &from.ConfigMapKeyRef.Name)
			}
			if from != nil && from.SecretKeyRef != nil {
				visit(secret, &from.SecretKeyRef.Name)
			}
		}
	})
}
