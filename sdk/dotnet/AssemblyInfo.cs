using System.Runtime.CompilerServices;

[assembly: InternalsVisibleTo("fixtures")]
