// Package objects names objects, and changes those that are shared, such as those of caches, for one user of
// them: what the others see stays as it is, and is copied only as far as it has to be. It fills caches, and reads them.
package objects
