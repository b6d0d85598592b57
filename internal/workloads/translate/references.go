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
	for _, secret := range spec.ImagePullSecrets {
		r.secret(secret.Name)
	}
	for i := range spec.Volumes {
		r.inVolume(&spec.Volumes[i])
	}
	eachContainer(spec, nil, func(c *corev1.Container, _ *field.Path) { r.inContainer(c) })
	return r
}

func (r References) configMap(name string) {
	if name != "" {
		r.ConfigMaps[name] = true
	}
}

func (r References) secret(name string) {
	if name != "" {
		r.Secrets[name] = true
	}
}

func (r References) inVolume(v *corev1.Volume) {
	switch {
	case v.ConfigMap != nil:
		r.configMap(v.ConfigMap.Name)
	case v.Secret != nil:
		r.secret(v.Secret.SecretName)
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if source := v.Projected.Sources[i].ConfigMap; source != nil {
				r.configMap(source.Name)
			}
			if source := v.Projected.Sources[i].Secret; source != nil {
				r.secret(source.Name)
			}
		}
	}
}

func (r References) inContainer(c *corev1.Container) {
	for i := range c.EnvFrom {
		if from := c.EnvFrom[i].ConfigMapRef; from != nil {
			r.configMap(from.Name)
		}
		if from := c.EnvFrom[i].SecretRef; from != nil {
			r.secret(from.Name)
		}
	}
	for i := range c.Env {
		from := c.Env[i].ValueFrom
		if from != nil && from.ConfigMapKeyRef != nil {
			r.configMap(from.ConfigMapKeyRef.Name)
		}
		if from != nil && from.SecretKeyRef != nil {
			r.secret(from.SecretKeyRef.Name)
		}
	}
}
